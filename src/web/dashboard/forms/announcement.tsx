// What a search has found, in words: shown at once, and read out by screen readers at most once a second.
import { useEffect, useRef, useState } from "preact/hooks";

const PAUSE_MS = 1_000;

/** The newest text, but not another one within a second. */
function useSlowly(text: string): string {
  const [said, setSaid] = useState(text);
  const saidAt = useRef(-Infinity);
  useEffect(() => {
    if (text === said) return;
    const say = (): void => {
      saidAt.current = performance.now();
      setSaid(text);
    };
    const timer = setTimeout(say, Math.max(0, saidAt.current + PAUSE_MS - performance.now()));
    return () => clearTimeout(timer);
  }, [text, said]);
  return said;
}

export function Announcement({ words, isShown }: { words: string; isShown: boolean }) {
  return (
    <>
      {isShown && (
        <p class="announcement muted small" aria-hidden="true">
          {words}
        </p>
      )}
      <p role="status" class="hide">
        {useSlowly(words)}
      </p>
    </>
  );
}
