// What a search has found, in words: shown at once, and read out by screen readers at most once a second.
import { useEffect, useRef, useState } from "preact/hooks";

const PAUSE_MS = 1_000;

/** The newest text, but not another one within a second. */
function useSlowly(text: string): string {
  const [announced, setAnnounced] = useState(text);
  const announcedAt = useRef(-Infinity);
  useEffect(() => {
    if (text === announced) return;
    const announce = (): void => {
      announcedAt.current = performance.now();
      setAnnounced(text);
    };
    const timer = setTimeout(announce, Math.max(0, announcedAt.current + PAUSE_MS - performance.now()));
    return () => clearTimeout(timer);
  }, [text, announced]);
  return announced;
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
