// Types of src/cli/api/commands.gen.json: the commands that are one API call each. tools/commands.ts writes the file.

export type FlagSpec = {
  /** Field on the wire. */
  name: string;
  flag: string;
  in: "query" | "body";
  /** switch: present or not, "true" on the wire · list: repeatable · json: any JSON text. */
  kind: "text" | "integer" | "number" | "boolean" | "switch" | "list" | "json";
  required: boolean;
  nullable?: true;
  choices?: string[];
  description?: string;
};

export type CommandSpec = {
  noun: string;
  verb: string;
  /** "POST /v1/keys" */
  route: string;
  summary: string;
  /** Positional arguments, in the order of the path. */
  args: string[];
  flags: FlagSpec[];
  hasBody: boolean;
  /** Accepts an Idempotency-Key. */
  idempotent: boolean;
  /** Field (dots go deeper) that --quiet prints; the id by default. */
  quiet?: string;
  /** Help of --quiet, where the name of the field does not explain it. */
  quietHelp?: string;
  /** Field of the response that is shown only once. */
  secret?: string;
  /** Columns of a list's table. */
  columns?: string[];
  examples: [string, string];
};

/** By noun, then by verb: table.key.create. */
export type CommandSpecs = Record<string, Record<string, CommandSpec>>;
