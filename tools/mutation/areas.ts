// What is mutated, and the tests that should fail: those that know the code best first, slow ones last.
import { filesIn } from "../../harness/repository.ts";

export type Area = { name: string; files: string[]; tests: string[] };

/**
 * `files` are paths below src without their ending. `tests` are paths below test without `.test.ts`, or the beginning
 * of such a path: "api/machine/policy" also names policy-waiting.test.ts. test/house/mutation.test.ts checks both.
 */
const area = (name: string, files: string[], tests: string[]): Area => ({ name, files, tests });
const kernel = (name: string, ...more: string[]): Area =>
  area("kernel", [`kernel/${name}`], [`kernel/${name}`, ...more]);
const LIMITER = [
  "ratelimit/contract",
  "ratelimit/bounds",
  "ratelimit/memory/rows",
  "ratelimit/memory/saved-counter",
  "ratelimit/memory/leases",
];
const limiter = (name: string, ...tests: string[]): Area =>
  area("limiter", [name], [...tests, ...LIMITER.filter((test) => !tests.includes(test))]);

export const AREAS: Area[] = [
  area("auth", ["http/access"], ["http/access", "api/access-matrix"]),
  area("auth", ["domain/auth/credential-cache"], ["domain/auth/credential-cache"]),
  area(
    "auth",
    ["domain/auth/credentials"],
    [
      "domain/auth/credentials",
      "api/person/sessions",
      "api/vendor/resources",
      "api/access-matrix",
      "api/machine/embed-tokens",
    ],
  ),
  area("auth", ["domain/core/actor"], ["domain/core/actor", "api/vendor/resources"]),
  limiter("kernel/ratelimit/window", "kernel/ratelimit/window"),
  limiter("ratelimit/memory/rows", "ratelimit/memory/rows"),
  limiter("ratelimit/memory/saved-counter", "ratelimit/memory/saved-counter"),
  limiter("ratelimit/memory/dirty-rows", "ratelimit/memory/saved-counter"),
  limiter("ratelimit/memory/counter"),
  limiter("ratelimit/memory/leases"),
  limiter("ratelimit/memory/row-index"),
  limiter("ratelimit/memory/rules"),
  area("idempotency", ["domain/idempotency/replays"], ["api/vendor/idempotency-replays"]),
  area(
    "idempotency",
    ["domain/idempotency/claims", "store/queries/idempotency-claims", "kernel/idempotency"],
    ["api/machine/idempotency", "domain/idempotency"],
  ),
  area("audit", ["kernel/audit/chain"], ["kernel/audit/chain"]),
  area("audit", ["kernel/crypto/merkle"], ["kernel/crypto/merkle"]),
  area("audit", ["kernel/crypto/signed-note"], ["kernel/crypto/signed-note"]),
  area("audit", ["store/audit/verify"], ["store/audit/verify", "prove/verify"]),
  area(
    "audit",
    ["store/engine/audit-ledger"],
    ["store/engine/audit-ledger", "store/engine/group-commit", "store/engine/rollback", "domain/audit/"],
  ),
  area("audit", ["domain/audit/checkpoints"], ["domain/audit/checkpoint", "domain/audit/"]),
  area("audit", ["domain/audit/audit", "store/queries/audit"], ["domain/audit/audit", "domain/audit/"]),
  area("feed", ["domain/policy/page-cache"], ["domain/policy/page-cache", "api/machine/policy"]),
  area(
    "feed",
    ["store/engine/policy-versions"],
    ["store/engine/policy-versions", "store/engine/group-commit", "store/engine/rollback", "api/machine/policy"],
  ),
  area("feed", ["domain/policy/feed"], ["domain/policy/feed", "api/machine/policy"]),
  area(
    "feed",
    ["domain/policy/policy", "domain/policy/build-page", "domain/policy/filter", "domain/policy/cursor"],
    ["api/machine/policy", "domain/policy/policy"],
  ),
  kernel("credentials"),
  kernel("audit/canonical", "kernel/audit/chain"),
  kernel("timestamps"),
  kernel("ids"),
  kernel("crypto/bytes"),
  kernel("crypto/crc32"),
  kernel("crypto/sha256"),
  area("kernel", ["kernel/crypto/sha256-block"], ["kernel/crypto/sha256", "kernel/crypto/key-digest"]),
  kernel("policy/tenant-table", "kernel/policy/policy"),
  area(
    "kernel",
    [
      "kernel/policy/policy",
      "kernel/policy/loader",
      "kernel/policy/key-table",
      "kernel/policy/interner",
      "kernel/policy/profile-cache",
      "kernel/crypto/key-digest",
      "kernel/crypto/word-codec",
    ],
    ["kernel/crypto/key-digest", "kernel/policy/", "sdk/verify", "sdk/feed/feed"],
  ),
];

export const sourcesOf = ({ files }: Area): string[] => files.map((file) => `src/${file}.ts`);

/** The test files of an area in the order of its list, each once. */
export function testsOf({ tests }: Area): string[] {
  const all = filesIn("test", ".test.ts");
  return [...new Set(tests.flatMap((start) => all.filter((file) => file.startsWith(`test/${start}`))))];
}
