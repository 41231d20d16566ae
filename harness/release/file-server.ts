// Where a release can be downloaded from: its folder behind https, with a certificate of its own.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { CertificateFiles } from "../processes/certificate.ts";

export type FileServer = { url: string } & AsyncDisposable;

/** Serves https://…/any/path/NAME from `folder`, in a thread. */
export async function serveFiles(folder: string, certificate: CertificateFiles): Promise<FileServer> {
  const worker = new Worker(new URL("./file-server.worker.ts", import.meta.url), {
    workerData: { folder, ...certificate },
  });
  const [port] = (await once(worker, "message")) as [number];
  return {
    url: `https://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => void (await worker.terminate()),
  };
}
