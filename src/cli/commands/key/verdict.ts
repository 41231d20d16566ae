// Whether a key would be admitted, and why not, for people: in `key lookup` and `key show --include verdict`.
import type { RouteOutput } from "../../../client.ts";

type Verdict = Pick<RouteOutput<"POST /v1/keys/lookup">, "admitted" | "reasons" | "nodes">;

/** As fields of a record. */
export function verdictFields({ admitted, nodes }: Verdict): Record<string, string | null> {
  return {
    admitted: admitted === null ? null : admitted ? "yes" : "no",
    nodes: nodes && `${nodes.current} of ${nodes.live} live nodes are up to date`,
  };
}

export function reasonLines({ reasons }: Verdict): string[] {
  return reasons.map(({ message, since }) => `- ${message}${since ? ` Since ${since}.` : ""}`);
}
