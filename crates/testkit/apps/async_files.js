// Hundreds of file operations at once on libuv's thread pool, with hashing and compression that
// run there too; prints what must not change.
"use strict";
const { createHash, pbkdf2 } = require("node:crypto");
const fs = require("node:fs/promises");
const os = require("node:os");
const path = require("node:path");
const { promisify } = require("node:util");
const { Worker } = require("node:worker_threads");
const { gzip, gunzip } = require("node:zlib");

const FILES = 300;

function contents(number) {
  return Buffer.from(`file ${number} `.repeat(50 + (number % 200)));
}

async function roundTrip(directory, number) {
  const file = path.join(directory, String(number));
  await fs.writeFile(file, await promisify(gzip)(contents(number)));
  const back = await promisify(gunzip)(await fs.readFile(file));
  await fs.unlink(file);
  return createHash("sha256").update(back).digest("hex");
}

async function reads() {
  const zero = await fs.open("/dev/zero");
  let total = 0;
  const reader = async () => {
    for (let count = 0; count < 500; count++) {
      total += (await zero.read(Buffer.alloc(64), 0, 64, null)).bytesRead;
    }
  };
  await Promise.all(Array.from({ length: 16 }, reader));
  await zero.close();
  return total;
}

function worker(number) {
  const source = "const { parentPort, workerData } = require('node:worker_threads'); parentPort.postMessage(workerData * 2);";
  return new Promise((resolve, reject) => {
    const thread = new Worker(source, { eval: true, workerData: number });
    thread.once("message", resolve).once("error", reject);
  });
}

async function main() {
  const directory = await fs.mkdtemp(path.join(os.tmpdir(), "lockwork-node-"));
  const hashes = await Promise.all(Array.from({ length: FILES }, (_, number) => roundTrip(directory, number)));
  await fs.rmdir(directory);
  console.log("files", createHash("sha256").update(hashes.join()).digest("hex"));
  console.log("reads", await reads());
  const keys = await Promise.all(Array.from({ length: 16 }, (_, n) => promisify(pbkdf2)(`p${n}`, "salt", 200, 16, "sha256")));
  console.log("keys", Buffer.concat(keys).toString("hex"));
  console.log("workers", (await Promise.all([1, 2, 3].map(worker))).join());
  console.log("done");
}

main();
