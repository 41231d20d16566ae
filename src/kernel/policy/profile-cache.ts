// The last few profiles that a snapshot loader parsed, with the numbers they were interned under. Most keys share their
// profile with a neighbour, and comparing is cheaper than building the interning key. Only validated profiles are
// added, so an equal one needs no validation. bench: verify/load

type Json = Record<string, unknown>;
const SLOTS = 8;

export class ProfileCache {
  readonly #kept: Json[] = [];
  readonly #ids: number[] = [];
  #next = 0;

  /** The number of an equal profile, or 0. */
  find(raw: Json): number {
    for (let i = 0; i < this.#kept.length; i++) {
      if (sameProfile(this.#kept[i] as Json, raw)) return this.#ids[i] as number;
    }
    return 0;
  }

  add(raw: Json, id: number): number {
    this.#kept[this.#next] = raw;
    this.#ids[this.#next] = id;
    this.#next = (this.#next + 1) % SLOTS;
    return id;
  }
}

// Plain loops: V8 does not inline a comparison passed as a callback.
function sameProfile(kept: Json, raw: Json): boolean {
  const scopes = kept["scopes"] as unknown[];
  const others = raw["scopes"];
  if (!Array.isArray(others) || others.length !== scopes.length || kept["env"] !== raw["env"]) return false;
  if (kept["metered"] !== raw["metered"]) return false;
  if (kept["disabled"] !== raw["disabled"] || kept["ip_mode"] !== raw["ip_mode"]) return false;
  if (kept["allowed_cidrs"] !== raw["allowed_cidrs"] && !sameTexts(kept["allowed_cidrs"], raw["allowed_cidrs"]))
    return false;
  for (let i = 0; i < scopes.length; i++) if (scopes[i] !== others[i]) return false;
  return sameRules(kept["rate_limits"] as Json[], raw["rate_limits"]);
}

function sameTexts(kept: unknown, raw: unknown): boolean {
  if (!Array.isArray(kept) || !Array.isArray(raw) || raw.length !== kept.length) return false;
  for (let i = 0; i < kept.length; i++) if (kept[i] !== raw[i]) return false;
  return true;
}

function sameRules(kept: Json[], raw: unknown): boolean {
  if (!Array.isArray(raw) || raw.length !== kept.length) return false;
  for (let i = 0; i < kept.length; i++) if (!sameRule(kept[i] as Json, raw[i])) return false;
  return true;
}

function sameRule(kept: Json, raw: unknown): boolean {
  if (typeof raw !== "object" || raw === null) return false;
  const rule = raw as Json;
  if (kept["limit"] !== rule["limit"] || kept["window_ms"] !== rule["window_ms"]) return false;
  return kept["id"] === rule["id"] && kept["algorithm"] === rule["algorithm"] && kept["scope"] === rule["scope"];
}
