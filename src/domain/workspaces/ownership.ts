// How many workspaces a person may own. A workspace that they created counts also after they have left it: their
// account is charged for what its cells use, so leaving it to another owner must not make room for one more.
import { fail, type FailureName } from "../../kernel/errors.ts";
import { countOwnedBy } from "../../store/queries/memberships.ts";
import { lockUser } from "../../store/queries/users.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { UserRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";

/** Workspaces that a person with an unverified address may own. */
const UNVERIFIED_MAX = 3;

type Person = Pick<UserRow, "id" | "email_verified_at">;

/** Before a person creates this workspace. */
export function requireMayCreate({ settings }: Services, tx: Tx, user: Person, workspace_id: string): Promise<void> {
  return requireFewer(tx, user, workspace_id, settings.workspaces_per_person, "workspaces_reached");
}

/**
 * Before a person becomes an owner of this workspace. With a limit of 0 people create none, and may own what others
 * created.
 */
export async function requireMayOwn(
  { settings }: Services,
  tx: Tx,
  user: Person,
  workspace_id: string,
  refusal: FailureName,
): Promise<void> {
  const max = settings.workspaces_per_person;
  if (max > 0) await requireFewer(tx, user, workspace_id, max, refusal);
}

async function requireFewer(
  tx: Tx,
  { id: user_id, email_verified_at }: Person,
  except: string,
  max: number,
  refusal: FailureName,
): Promise<void> {
  await lockUser.run(tx, { id: user_id }); // or two processes would both count before either has inserted
  const owned = await countOwnedBy.count(tx, { user_id, except });
  if (owned >= (email_verified_at === null ? Math.min(max, UNVERIFIED_MAX) : max)) throw fail(refusal);
}
