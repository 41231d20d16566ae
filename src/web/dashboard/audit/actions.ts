// Words for what audit rows and usage call things. What a newer server adds is shown as it is.

/** The types of targets, which are also the first parts of actions. */
export const NOUNS = [
  "api_key",
  "secret_key",
  "tenant",
  "project",
  "plan",
  "quota_grant",
  "workspace",
  "workspace_member",
  "workspace_invite",
];

const VERBS = [
  "created",
  "updated",
  "deleted",
  "rotated",
  "disabled",
  "enabled",
  "revoked",
  "quarantined",
  "voided",
  "suspended",
  "resumed",
  "embed_tokens_revoked",
  "joined",
  "role_changed",
  "removed",
  "accepted",
];

/** "Quota exceeded", "API key". */
export function sentenceCase(name: string): string {
  const words = name.replaceAll("_", " ").replace(/^api\b/, "API");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** "API key", "Workspace member". */
export const typeWords = (type: string): string => (NOUNS.includes(type) ? sentenceCase(type) : type);

/** "API key quarantined". */
export function actionWords(action: string): string {
  const [noun = "", verb = ""] = action.split(".");
  const isKnown = NOUNS.includes(noun) && VERBS.includes(verb) && action === `${noun}.${verb}`;
  return isKnown ? `${sentenceCase(noun)} ${verb.replaceAll("_", " ")}` : action;
}
