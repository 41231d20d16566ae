// The shape of src/cli/api/commands.gen.json: commands that are one call of the API.

export type Flag = {
  /** Field on the wire. */
  name: string;
  flag: string;
  in: "query" | "body";
  /** switch: present or not, "true" on the wire · list: repeatable · json: any JSON text. */
  kind: "text" | "integer" | "number" | "boolean" | "switch" | "list" | "json";
  required: boolean;
  nullable?: true;
  choices?: string[];
  about?: string;
};

export type Verb = {
  /** "POST /v1/keys" */
  route: string;
  summary: string;
  /** Positional arguments, in the order of the path. */
  args: string[];
  flags: Flag[];
  hasBody: boolean;
  /** The endpoint takes an Idempotency-Key. */
  idempotent: boolean;
  quiet?: string;
  secret?: string;
  columns?: string[];
  examples: [string, string];
};

export type Noun = { about: string; verbs: Record<string, Verb> };
