// A fake control plane and a ready library instance, both closed at the end of the test.

import type { Keyrack } from "../../src/sdk/instance.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import type { KeyrackOptions } from "../../src/sdk/options.ts";
import type { Ports } from "../../src/sdk/runtime.ts";
import { FakeControlPlane } from "./control-plane.ts";
import { patientPorts } from "./ports.ts";

export type LogLine = { level: string; message: string; fields: Record<string, unknown> };

export class TestKeyrack {
  readonly plane: FakeControlPlane;
  readonly keyrack: Keyrack;
  readonly lines: LogLine[];

  constructor(plane: FakeControlPlane, keyrack: Keyrack, lines: LogLine[]) {
    this.plane = plane;
    this.keyrack = keyrack;
    this.lines = lines;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.keyrack.close();
    await this.plane[Symbol.asyncDispose]();
  }
}

type TestKeyrackOptions = {
  options?: Partial<KeyrackOptions>;
  ports?: Ports;
  plane?: FakeControlPlane;
  ready?: boolean;
};

export async function startTestKeyrack({
  options = {},
  ports,
  plane,
  ready = true,
}: TestKeyrackOptions = {}): Promise<TestKeyrack> {
  const own = plane ?? (await FakeControlPlane.start());
  const lines: LogLine[] = [];
  const log = (level: string, message: string, fields: Record<string, unknown>) => {
    lines.push({ level, message, fields });
  };
  const keyrack = createKeyrackWith({ ...own.options, log, ...options }, ports ?? patientPorts()) as Keyrack;
  const made = new TestKeyrack(own, keyrack, lines);
  if (ready) await keyrack.ready();
  return made;
}
