// Progress reports of long operations on a database: copy, dump, inspection.

export type Step = { step: string; done: number; total: number };

/** Called with each step. Aborting `signal`, if there is one, cancels the operation. */
export type OnProgress = ((step: Step) => void) & { readonly signal?: AbortSignal };

/** The same callback with a signal that cancels the operation. */
export function withSignal(onProgress: OnProgress, signal: AbortSignal): OnProgress {
  return Object.assign((step: Step) => onProgress(step), { signal });
}
