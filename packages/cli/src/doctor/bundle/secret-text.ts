// SPDX-License-Identifier: Apache-2.0
// Removal of secrets from texts that are not JSON, for example lines of logs.

/** Replaces a removed value, so that a reader sees that the field was set. */
export const REMOVED = "(removed)";

const KEYS =
  "access|api|auth|client|encryption|pre-?shared|private|secret|session|shared|signing|ssh|tls";
/** Ends of the names of secrets, for example `adminPassword`. Names of references, such as `secretName`, end differently. */
const SECRET_NAME = String.raw`(?:pass(?:word|wd|phrase|code)|(?<![a-z])pass|psk|secret|credential|token|cookie|auth(?:orization)?|(?:${KEYS})[ _.-]?key|key[_-]?data)s?`;
const SECRET_MEMBER = new RegExp(`${SECRET_NAME}$`, "i");
const FLAG = String.raw`--?(?:[\w-]*[_-])?(?:${SECRET_NAME}|key)`;
const WHOLE_FLAG = new RegExp(`^${FLAG}$`, "i");
const PROSE = "(?:and|are|can|cannot|for|has|in|is|may|must|needs?|of|or|requires?|to|was|with)\\b";
/** A flag before its value, also in a list of arguments, or a name before `=` or `:`. A value follows. */
const BEFORE_VALUE = new RegExp(
  String.raw`(?<![\w-])${FLAG}["'\\]{0,8}(?:[ \t]{0,8},[ \t]{0,8}|[ \t]{1,8})(?!${PROSE})(?=\S)|(?<name>${SECRET_NAME})(?<quote>["'\\]{0,8})[ \t]{0,8}(?<separator>:=|[=:]>?)(?<space>[ \t]{0,8})`,
  "gi",
);
const PHRASE_NAME =
  /(?:pass|pass(?:word|wd|phrase|code)|psk|secret|credential|cookie|authorization)s?$/i;
const OPENING = /(\\*)(["'])/y;
const CONSTANT = /(?:true|false|null)(?=[\s,;}\])]|$)/y;
const NUMBER = /-?\d[\d.eE+-]*(?=[\s,;}\])]|$)/y;
const HEADER = /(?:bearer|basic) \(removed\)/iy;

const HEADER_CREDENTIALS = /(?<!\w)(bearer|basic) {1,8}[\w.~+/=-]{6,}/gi;
const WEB_TOKEN = /(?<![\w-])eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g;
const ADDRESS = /(?<![a-z])[a-z][a-z+]{1,15}:\/\/[^\s"'<>\\]+/gi;
const KEY_BEGIN = /-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----/;
const KEY_END = /-----END [A-Z ]{0,20}PRIVATE KEY-----/;

export function isSecretName(name: string): boolean {
  return SECRET_MEMBER.test(name);
}

export function isSecretFlag(argument: unknown): boolean {
  return typeof argument === "string" && WHOLE_FLAG.test(argument);
}

/** Removes private keys in PEM. The text may begin or end within a key. */
export function removeKeys(text: string): string {
  const parts: string[] = [];
  let rest = text;
  const leadingEnd = KEY_END.exec(rest);
  const firstBegin = KEY_BEGIN.exec(rest);
  if (leadingEnd !== null && (firstBegin === null || leadingEnd.index < firstBegin.index)) {
    parts.push(REMOVED);
    rest = rest.slice(leadingEnd.index + leadingEnd[0].length);
  }
  for (let begin = KEY_BEGIN.exec(rest); begin !== null; begin = KEY_BEGIN.exec(rest)) {
    parts.push(rest.slice(0, begin.index), REMOVED);
    const after = rest.slice(begin.index + begin[0].length);
    const end = KEY_END.exec(after);
    rest = end === null ? "" : after.slice(end.index + end[0].length);
  }
  return [...parts, rest].join("");
}

function shortenAddress(address: string): string {
  const [start = "", query] = address.split(/[?#]/, 2);
  const scheme = start.slice(0, start.indexOf("://") + 3);
  const [host = "", ...path] = start.slice(scheme.length).split("/");
  const end = query === undefined ? "" : `?${REMOVED}`;
  return `${scheme}${[host.slice(host.lastIndexOf("@") + 1), ...path].join("/")}${end}`;
}

/** Whether a quote ends a string. A quote in the string has more backslashes, which JSON in a string doubles. */
function isClosing(backslashes: number, opening: number): boolean {
  return backslashes % (2 * (opening + 1)) === opening;
}

interface Quote {
  readonly mark: string;
  readonly backslashes: number;
}

function findClosing(line: string, start: number, { mark, backslashes }: Quote): number {
  let count = 0;
  for (let index = start; index < line.length; index += 1) {
    if (line[index] === mark && isClosing(count, backslashes)) return index + 1;
    count = line[index] === "\\" ? count + 1 : 0;
  }
  return line.length;
}

/** Finds the double-quoted string that encloses a position. Positions must not decrease. */
class Enclosure {
  readonly #line: string;
  #position = 0;
  #backslashes = 0;
  #quote: Quote | undefined;

  constructor(line: string) {
    this.#line = line;
  }

  findAt(end: number): Quote | undefined {
    for (; this.#position < end; this.#position += 1) {
      const character = this.#line[this.#position];
      if (character === '"') this.#meet(this.#backslashes);
      this.#backslashes = character === "\\" ? this.#backslashes + 1 : 0;
    }
    return this.#quote;
  }

  #meet(backslashes: number): void {
    if (this.#quote === undefined) this.#quote = { mark: '"', backslashes };
    else if (isClosing(backslashes, this.#quote.backslashes)) this.#quote = undefined;
  }
}

function matchAt(pattern: RegExp, line: string, start: number): RegExpExecArray | null {
  pattern.lastIndex = start;
  return pattern.exec(line);
}

function findBracketEnd(line: string, start: number): number {
  let depth = 0;
  let backslashes = 0;
  for (let index = start; index < line.length; index += 1) {
    const character = line.charAt(index);
    if (/["']/.test(character))
      index = findClosing(line, index + 1, { mark: character, backslashes }) - 1;
    else if (/[[{]/.test(character)) depth += 1;
    else if (/[\]}]/.test(character)) depth -= 1;
    if (depth === 0) return index + 1;
    backslashes = character === "\\" ? backslashes + 1 : 0;
  }
  return line.length;
}

interface ValueContext {
  readonly enclosure: Quote | undefined;
  readonly isPhrase: boolean;
  readonly isMember: boolean;
}

function findBareEnd(line: string, start: number, { enclosure, isPhrase }: ValueContext): number {
  let backslashes = 0;
  for (let index = start; index < line.length; index += 1) {
    const character = line.charAt(index);
    if (!isPhrase && /\s/.test(character)) return index;
    if (character === enclosure?.mark && isClosing(backslashes, enclosure.backslashes))
      return index - backslashes;
    backslashes = character === "\\" ? backslashes + 1 : 0;
  }
  return line.length;
}

function findQuotedEnd(line: string, start: number, context: ValueContext): number {
  const { enclosure } = context;
  const [opening = "", escapes = "", mark = ""] = matchAt(OPENING, line, start) ?? [];
  const backslashes = escapes.length;
  const isEmpty = mark === enclosure?.mark && isClosing(backslashes, enclosure.backslashes);
  if (isEmpty) return start;
  const end = findClosing(line, start + opening.length, { mark, backslashes });
  const isContinued = /[^\s,;:)\]}"'\\]/.test(line.charAt(end));
  return isContinued ? findBareEnd(line, end, { ...context, isPhrase: false }) : end;
}

function findValueEnd(line: string, start: number, context: ValueContext): number {
  const number = matchAt(NUMBER, line, start);
  if (context.isMember && matchAt(CONSTANT, line, start) !== null) return start;
  if (context.isMember && number !== null) return start + number[0].length;
  if (matchAt(OPENING, line, start) !== null) return findQuotedEnd(line, start, context);
  if (/[[{]/.test(line.charAt(start))) return findBracketEnd(line, start);
  return matchAt(HEADER, line, start) === null ? findBareEnd(line, start, context) : start;
}

function removeNamed(line: string): string {
  const parts: string[] = [];
  const enclosures = new Enclosure(line);
  let end = 0;
  for (
    let match = matchAt(BEFORE_VALUE, line, 0);
    match !== null;
    match = matchAt(BEFORE_VALUE, line, Math.max(end, BEFORE_VALUE.lastIndex))
  ) {
    const start = match.index + match[0].length;
    const { name = "", quote = "", separator = "", space = "" } = match.groups ?? {};
    const isText = separator.startsWith(":") || space !== "";
    const valueEnd = findValueEnd(line, start, {
      enclosure: enclosures.findAt(start),
      isPhrase: isText && PHRASE_NAME.test(name),
      isMember: quote !== "",
    });
    BEFORE_VALUE.lastIndex = start;
    if (valueEnd <= start) continue;
    parts.push(line.slice(end, start), REMOVED);
    end = valueEnd;
  }
  return [...parts, line.slice(end)].join("");
}

export function redactLine(line: string): string {
  return removeNamed(
    line.replace(ADDRESS, shortenAddress).replace(HEADER_CREDENTIALS, `$1 ${REMOVED}`),
  ).replace(WEB_TOKEN, REMOVED);
}
