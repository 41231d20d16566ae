// The words of a search and of the texts it looks at: NFKC, lower case, split at everything that is neither letter nor
// digit. One character can become eighteen in this form, so the words are bounded, not only the text.

export const WORDS_MAX = 16;
const WORD_CHARS_MAX = 64;
/** Maximum size of a term of the search index, in UTF-8: cursors contain terms. */
const TERM_BYTES_MAX = 240;
/** Maximum length of the normal form: enough for all words and their separators. */
const FORM_MAX = 2 * WORDS_MAX * (WORD_CHARS_MAX + 1);

/** Words of at most 64 code points and 240 bytes: the first 16, all that the search index has of a text. */
export function wordsOf(text: string, max = WORDS_MAX): string[] {
  const form = text.normalize("NFKC").slice(0, FORM_MAX).toLowerCase();
  const words: string[] = [];
  for (const [word] of form.matchAll(/[\p{L}\p{N}]+/gu)) {
    words.push(word.length <= WORD_CHARS_MAX ? word : cutToTerm([...word].slice(0, WORD_CHARS_MAX).join("")));
    if (words.length === max) break;
  }
  return words;
}

const encoder = new TextEncoder();

/** As many whole characters as fit a term of the search index. */
export function cutToTerm(text: string): string {
  return text.slice(0, encoder.encodeInto(text, new Uint8Array(TERM_BYTES_MAX)).read);
}
