// A script: prints how much memory the single bytes of eight bodies take (test/http/chunk-list.test.ts).
import { ChunkList } from "../../src/http/body/chunk-list.ts";
import { usedMegabytes } from "./heap.ts";

const bytes = Buffer.alloc(65_536, "x");
const before = await usedMegabytes();
const held = Array.from({ length: 8 }, () => new ChunkList());
for (const chunks of held) for (let i = 0; i < bytes.length; i++) chunks.add(bytes.subarray(i, i + 1));
const megabytes = (await usedMegabytes()) - before;
console.log(JSON.stringify({ megabytes, isComplete: held.every((chunks) => chunks.joined().equals(bytes)) }));
