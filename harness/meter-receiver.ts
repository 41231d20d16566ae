// A metering system on loopback: takes batches of CloudEvents, or does not, and counts each event once.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type MeterEvent = {
  id: string;
  source: string;
  subject: string;
  time: string;
  type: string;
  data: { value: number; requests: number; errors: number; part: number; tenant_id: string } & Record<string, unknown>;
};
type MeterRequest = { headers: Record<string, string | string[] | undefined>; events: MeterEvent[] };
/** A status with headers, or what to do with the connection instead. */
type MeterAnswer = { status: number; headers?: Record<string, string> } | ((response: ServerResponse) => void);

export type MeterReceiver = AsyncDisposable & {
  url: string;
  requests: MeterRequest[];
  answer: (events: MeterEvent[]) => MeterAnswer;
  /** The sum over the distinct events that were accepted. A repeated one must have the same values. */
  total(): { value: number; requests: number; errors: number };
};

export async function meterReceiver(): Promise<MeterReceiver> {
  const accepted = new Map<string, MeterEvent>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const events = JSON.parse(Buffer.concat(chunks).toString("utf8")) as MeterEvent[];
      receiver.requests.push({ headers: request.headers, events });
      const answer = receiver.answer(events);
      if (typeof answer === "function") answer(response);
      else {
        if (answer.status < 300) for (const event of events) accept(accepted, event);
        response.writeHead(answer.status, answer.headers).end();
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const receiver: MeterReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`,
    requests: [],
    answer: () => ({ status: 204 }),
    total: () => {
      const sum = { value: 0, requests: 0, errors: 0 };
      for (const { data } of accepted.values())
        for (const field of ["value", "requests", "errors"] as const) sum[field] += data[field];
      return sum;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

function accept(accepted: Map<string, MeterEvent>, event: MeterEvent): void {
  const key = `${event.source} ${event.id}`;
  const first = accepted.get(key);
  if (first && JSON.stringify(first) !== JSON.stringify(event)) throw new Error(`event ${event.id} has changed`);
  accepted.set(key, event);
}
