// Keys that widgets and shortcuts take for themselves.

/** Not one that the browser knows, such as Alt and an arrow for Back, or that something else has handled. */
export const isPlainKey = ({ ctrlKey, metaKey, altKey, defaultPrevented }: KeyboardEvent): boolean =>
  !(ctrlKey || metaKey || altKey || defaultPrevented);
