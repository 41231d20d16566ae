// Types of request fields as text, from their JSON Schema: `limit`? 1 to 200.

export type FieldSchema = {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: FieldSchema[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  items?: FieldSchema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, FieldSchema>;
  required?: string[];
  default?: unknown;
};

/** A longer one says less than the description in the OpenAPI document. */
const PATTERN_MAX = 40;
const FORMATS: Record<string, string> = { uuid: "id", "date-time": "time", email: "email address" };

const code = (value: unknown): string => `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;

const isBound = (value: number | undefined): value is number =>
  value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;

function range(min: number | undefined, max: number | undefined): string {
  if (isBound(min) && isBound(max)) return min === max ? `${min}` : `${min} to ${max}`;
  if (isBound(min)) return `from ${min}`;
  return isBound(max) ? `up to ${max}` : "";
}

const words = (...parts: string[]): string => parts.filter((part) => part !== "").join(" ");

function textType({ format, pattern, minLength, maxLength }: FieldSchema): string {
  const known = format && FORMATS[format];
  if (known) return known;
  const length = range(minLength || undefined, maxLength);
  return words("text", length && `of ${length}`, pattern && pattern.length < PATTERN_MAX ? code(pattern) : "");
}

/** Names of objects by their schema as JSON: they are described elsewhere. */
type Named = ReadonlyMap<string, string>;

function typeOf(schema: FieldSchema, named: Named): string {
  const either = Array.isArray(schema.type) ? schema.type.map((type) => ({ ...schema, type })) : schema.anyOf;
  // Null comes first: after a list it would seem to be one of its entries.
  if (either)
    return either
      .toSorted((a, b) => Number(b.type === "null") - Number(a.type === "null"))
      .map((each) => typeOf(each, named))
      .join(" or ");
  if (schema.const !== undefined) return code(schema.const);
  if (schema.enum) return schema.enum.map(code).join(" | ");
  if (schema.type === "string") return textType(schema);
  if (schema.type === "integer") return range(schema.minimum, schema.maximum) || "integer";
  if (schema.type === "number") return words("number", range(schema.minimum, schema.maximum));
  if (schema.type === "array") {
    const count = range(schema.minItems || undefined, schema.maxItems);
    return `${words("list", count && `of ${count}`)}: ${schema.items ? typeOf(schema.items, named) : "any"}`;
  }
  if (schema.type === "object") {
    const name = named.get(JSON.stringify(schema));
    if (name !== undefined) return `[${name}](#${name})`;
    return schema.properties ? `{${fieldList(schema, named, ", ")}}` : "object";
  }
  return String(schema.type ?? "any");
}

function field(name: string, schema: FieldSchema, isRequired: boolean, named: Named): string {
  const otherwise = schema.default === undefined ? "" : `= ${code(schema.default)}`;
  return words(`${code(name)}${isRequired ? "" : "?"}`, typeOf(schema, named), otherwise);
}

/** The fields of an object, or the type of anything else. */
export function fieldList(schema: FieldSchema, named: Named, separator = "; "): string {
  if (!schema.properties) return typeOf(schema, named);
  const required = schema.required ?? [];
  return Object.entries(schema.properties)
    .map(([name, each]) => field(name, each, required.includes(name), named))
    .join(separator);
}

/** The objects within these requests that occur more than once, by the name that most of their fields have. */
export function sharedObjects(requests: readonly FieldSchema[]): Map<string, string> {
  const found = new Map<string, string[]>();
  const walk = (schema: FieldSchema, name: string): void => {
    if (schema.properties && name !== "") {
      const key = JSON.stringify(schema);
      found.set(key, [...(found.get(key) ?? []), name]);
    }
    for (const each of [...(schema.anyOf ?? []), ...(schema.items ? [schema.items] : [])]) walk(each, name);
    for (const [inner, each] of Object.entries(schema.properties ?? {})) walk(each, inner);
  };
  for (const request of requests) walk(request, "");
  const shared = [...found].filter(([, names]) => names.length > 1);
  const frequency = (names: string[], name: string): number => names.filter((each) => each === name).length;
  return new Map(
    shared.map(([key, names]) => [
      key,
      names.reduce((best, name) => (frequency(names, name) > frequency(names, best) ? name : best)),
    ]),
  );
}
