// One request to the fake control plane, and its response.
import type { IncomingMessage } from "node:http";

export type RecordedRequest = {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: string;
};
export type FakeResponse = { status: number; json?: unknown; text?: string; headers?: Record<string, string> };
