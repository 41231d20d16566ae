// Finds the key that rotation made of another, among keys that are listed together.
type Rotated = { rotated_from: string | null; revoked_at: string | null; expires_at: string | null };

/** Undefined when none of them works. */
export function successorOf<Key extends Rotated>(
  { id }: { id: string },
  among: readonly Key[],
  now: number,
): Key | undefined {
  return among.find(
    ({ rotated_from, revoked_at, expires_at }) =>
      rotated_from === id && !revoked_at && (!expires_at || Date.parse(expires_at) > now),
  );
}
