// What the server warns of: it made the change, but that may not do what was intended.
import type { Detail } from "../api/problems.ts";

export type Warned = { warnings?: readonly Detail[] | undefined };

/** The entry of a list that a path such as `scopes[1]` leads to; else the path. */
function subjectOf(record: object, path: string): string {
  const [, name = "", index] = /^(\w+)\[(\d+)\]$/.exec(path) ?? [];
  const list = (record as Record<string, unknown>)[name];
  return Array.isArray(list) ? String(list[Number(index)]) : path;
}

/** `of`: the response of the change. */
export function Warnings({ of }: { of: Warned }) {
  if (!of.warnings?.length) return null;
  return (
    <div class="warning" role="alert">
      This may not do what you intended:
      <ul>
        {of.warnings.map(({ path, message }) => (
          <li key={`${path} ${message}`}>
            <bdi>{subjectOf(of, path)}</bdi>: {message}.
          </li>
        ))}
      </ul>
    </div>
  );
}
