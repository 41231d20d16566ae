// The memory in use by this process after garbage collection.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { turns } from "../waiting.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** In megabytes. Two collections: the second finishes freeing the buffers that the first found. */
export async function usedMegabytes(): Promise<number> {
  for (let i = 0; i < 2; i++) {
    collect();
    await turns(2);
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return (heapUsed + arrayBuffers) / 1024 / 1024;
}
