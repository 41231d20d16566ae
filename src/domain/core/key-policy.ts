// A project's rules for its keys.
export type KeyPolicy = {
  /** Whether the holder of a key may rotate it with the key itself. */
  holder_rotate: boolean;
};

export const DEFAULT_KEY_POLICY: KeyPolicy = { holder_rotate: false };

/** The stored policy; null in projects that never set one. */
export function parseKeyPolicy(stored: string | null): KeyPolicy {
  return stored === null
    ? DEFAULT_KEY_POLICY
    : { ...DEFAULT_KEY_POLICY, ...(JSON.parse(stored) as Partial<KeyPolicy>) };
}
