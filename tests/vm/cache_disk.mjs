// A disk with a volatile write cache, for the virtual machine of tests/vm/run.sh: an NBD server (fixed newstyle handshake) over an image.
// Writes stay in memory until the guest flushes. When qemu is killed, each sector of 512 bytes that was not flushed is written or lost by
// chance, as a power cut leaves it. Usage: node cache_disk.mjs IMAGE SOCKET SEED. Ends with its only client, and then says what was lost.
import fs from "node:fs";
import net from "node:net";

const [image, socket, seed] = process.argv.slice(2);
const sectorBytes = 512;
const file = fs.openSync(image, "r+");
const size = fs.fstatSync(file).size;
const cache = new Map(); // content of sectors that are not on disk
const counts = { writes: 0, flushes: 0 };

// Numbers in [0, 1) from the seed (mulberry32).
let state = Number(seed) >>> 0;
const random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
};

function store(sector, bytes) {
  fs.writeSync(file, bytes, 0, sectorBytes, sector * sectorBytes);
}

function read(offset, length) {
  const bytes = Buffer.alloc(length);
  fs.readSync(file, bytes, 0, length, offset);
  for (let at = 0; at < length; at += sectorBytes) cache.get((offset + at) / sectorBytes)?.copy(bytes, at);
  return bytes;
}

function write(offset, bytes) {
  ++counts.writes;
  for (let at = 0; at < bytes.length; at += sectorBytes)
    cache.set((offset + at) / sectorBytes, Buffer.from(bytes.subarray(at, at + sectorBytes)));
}

function flush() {
  ++counts.flushes;
  for (const [sector, bytes] of cache) store(sector, bytes);
  cache.clear();
}

function cutPower() {
  const survives = random();
  let lost = 0;
  for (const [sector, bytes] of cache) {
    if (random() < survives) store(sector, bytes);
    else ++lost;
  }
  console.log(`cache_disk: ${counts.writes} writes, ${counts.flushes} flushes; ${cache.size} sectors not flushed, ${lost} of them lost`);
  process.exit();
}

// numbers([[bytes, value]...]): big-endian.
function numbers(...parts) {
  return Buffer.concat(
    parts.map(([bytes, value]) => {
      const part = Buffer.alloc(8);
      part.writeBigUInt64BE(BigInt(value));
      return part.subarray(8 - bytes);
    }),
  );
}

const option = 0x49484156454f5054n; // "IHAVEOPT"
const transmission = numbers([8, size], [2, 0x1 | 0x4]); // flags: has flags, sends flushes
const answer = (kind, type, data = Buffer.alloc(0)) =>
  Buffer.concat([numbers([8, 0x3e889045565a9n], [4, kind], [4, type], [4, data.length]), data]);
const reply = (cookie, error, data = Buffer.alloc(0)) => Buffer.concat([numbers([4, 0x67446698], [4, error]), cookie, data]);

// Each returns the rest of a message that is not there yet as undefined, else the bytes that it took.
function takeOption(client, bytes) {
  if (bytes.length < 16 || bytes.length < 16 + bytes.readUInt32BE(12)) return undefined;
  const kind = bytes.readUInt32BE(8);
  if (kind === 7) {
    // GO
    client.write(answer(kind, 3, Buffer.concat([numbers([2, 0]), transmission])));
    client.write(answer(kind, 1));
    client.take = takeRequest;
  } else {
    client.write(answer(kind, 0x80000001)); // unsupported
  }
  return 16 + bytes.readUInt32BE(12);
}

function takeRequest(client, bytes) {
  if (bytes.length < 28) return undefined;
  const type = bytes.readUInt16BE(6);
  const cookie = bytes.subarray(8, 16);
  const offset = Number(bytes.readBigUInt64BE(16));
  const length = bytes.readUInt32BE(24);
  const data = type === 1 ? length : 0;
  if (bytes.length < 28 + data) return undefined;
  const wrong = offset % sectorBytes !== 0 || length % sectorBytes !== 0 || offset + length > size;
  if (type === 2) client.end();
  else if (type > 3 || wrong) client.write(reply(cookie, 22));
  else if (type === 0) client.write(reply(cookie, 0, read(offset, length)));
  else {
    if (type === 1) write(offset, bytes.subarray(28, 28 + data));
    else flush();
    client.write(reply(cookie, 0));
  }
  return 28 + data;
}

fs.rmSync(socket, { force: true });
net
  .createServer((client) => {
    let waiting = Buffer.alloc(0);
    client.take = (_, bytes) => {
      if (bytes.length < 4) return undefined;
      client.take = takeOption;
      return 4; // the client's flags
    };
    client.write(numbers([8, 0x4e42444d41474943n], [8, option], [2, 0x1 | 0x2])); // "NBDMAGIC"
    client.on("data", (some) => {
      waiting = Buffer.concat([waiting, some]);
      for (let taken; (taken = client.take(client, waiting)) !== undefined; ) waiting = waiting.subarray(taken);
    });
    client.on("error", () => {});
    client.on("close", cutPower);
  })
  .listen(socket);
