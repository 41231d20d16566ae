// A control plane and a library instance that is ready, both gone at the end of the test.

import type { Keyrack } from "../../src/sdk/parts.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import type { KeyrackOptions } from "../../src/sdk/options.ts";
import type { Ports } from "../../src/sdk/runtime.ts";
import { Plane } from "./control-plane.ts";
import { patientPorts } from "./ports.ts";

export type Line = { level: string; message: string; fields: Record<string, unknown> };

export class Rig {
  readonly plane: Plane;
  readonly keyrack: Keyrack;
  readonly lines: Line[];

  constructor(plane: Plane, keyrack: Keyrack, lines: Line[]) {
    this.plane = plane;
    this.keyrack = keyrack;
    this.lines = lines;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.keyrack.close();
    await this.plane[Symbol.asyncDispose]();
  }
}

type Want = { options?: Partial<KeyrackOptions>; ports?: Ports; plane?: Plane; ready?: boolean };

export async function rig({ options = {}, ports, plane, ready = true }: Want = {}): Promise<Rig> {
  const own = plane ?? (await Plane.start());
  const lines: Line[] = [];
  const log = (level: string, message: string, fields: Record<string, unknown>) => {
    lines.push({ level, message, fields });
  };
  const keyrack = createKeyrackWith({ ...own.options, log, ...options }, ports ?? patientPorts()) as Keyrack;
  const made = new Rig(own, keyrack, lines);
  if (ready) await keyrack.ready();
  return made;
}
