// SPDX-License-Identifier: Apache-2.0
// Splits shell text of the documents into statements and their commands: the subset of sh(1) that the documents use.

/** Text that the shell runs at once: a line with its continuation lines, its here-document, or a loop. */
export interface Statement {
  /** Number of the first line, from 0. */
  readonly line: number;
  readonly text: string;
  /** Words of each command, without assignments, redirections and `sudo`. */
  readonly commands: readonly (readonly string[])[];
}

const WORD = String.raw`(?:'[^']*'|"(?:\\[^]|[^"\\])*"|\$\([^()]*\)|\\[^\n]|(?<=\S)#|[^\s'"\\;|&<>()#])+`;
const TOKEN = new RegExp(
  String.raw`\\\n|[ \t]+|#.*|(?<end>\n|;|&&|\|\|?)|(?<redirection>\d?(?:<<|>>|[<>])(?:&\d)?)|(?<word>${WORD})`,
  "y",
);
const QUOTED = /'([^']*)'|"((?:\\[^]|[^"\\])*)"|\\([^])/g;
/** Words before a command's name that are no command. */
const PREFIX = /^(?:\w+=.*|sudo|do)$/s;

function unquote(word: string): string {
  return word.replace(
    QUOTED,
    (_, single?: string, double?: string, escaped?: string) =>
      single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? "",
  );
}

class StatementReader {
  readonly #text: string;
  readonly #statements: Statement[] = [];
  #position = 0;
  #start = 0;
  #words: string[] = [];
  #commands: (readonly string[])[] = [];
  #loops = 0;
  #isTarget = false;
  /** Its end marker; unset outside of a statement with a here-document. */
  #hereDocument: string | undefined;

  constructor(text: string) {
    this.#text = text.endsWith("\n") ? text : `${text}\n`;
  }

  read(): readonly Statement[] {
    while (this.#position < this.#text.length) this.#readToken();
    if (this.#loops !== 0) throw new Error(`a loop does not end: ${this.#text}`);
    return this.#statements;
  }

  #readToken(): void {
    TOKEN.lastIndex = this.#position;
    const match = TOKEN.exec(this.#text);
    if (match === null) throw new Error(`no shell text: ${this.#text.slice(this.#position)}`);
    this.#position = TOKEN.lastIndex;
    const { end, redirection, word } = match.groups ?? {};
    if (end !== undefined) this.#endCommand(end);
    if (redirection !== undefined) this.#redirect(redirection);
    if (word !== undefined) this.#addWord(word);
  }

  #redirect(operator: string): void {
    this.#isTarget = !operator.includes("&");
    if (operator === "<<") this.#hereDocument = "";
  }

  #addWord(word: string): void {
    if (this.#isTarget) {
      if (this.#hereDocument === "") this.#hereDocument = unquote(word);
      this.#isTarget = false;
      return;
    }
    this.#words.push(unquote(word));
    const inner = /\$\(([^()]*)\)/.exec(word)?.[1];
    if (inner !== undefined)
      this.#commands.push(...parseShell(inner).flatMap((each) => each.commands));
  }

  #endCommand(end: string): void {
    const [first] = this.#words;
    if (first === "for") this.#loops += 1;
    if (first === "done") this.#loops -= 1;
    const begin = this.#words.findIndex((word) => !PREFIX.test(word));
    if (begin !== -1 && first !== "for" && first !== "done") {
      this.#commands.push(this.#words.slice(begin));
    }
    this.#words = [];
    if (end === "\n" && this.#loops === 0) this.#endStatement();
  }

  #endStatement(): void {
    if (this.#hereDocument !== undefined) {
      const end = this.#text.indexOf(`\n${this.#hereDocument}\n`, this.#position - 1);
      if (end === -1) throw new Error(`a here-document does not end: ${this.#text}`);
      this.#position = end + this.#hereDocument.length + 2;
      this.#hereDocument = undefined;
    }
    const text = this.#text.slice(this.#start, this.#position).trimEnd();
    const line = this.#text.slice(0, this.#start).split("\n").length - 1;
    if (this.#commands.length > 0) this.#statements.push({ line, text, commands: this.#commands });
    this.#commands = [];
    this.#start = this.#position;
  }
}

export function parseShell(text: string): readonly Statement[] {
  return new StatementReader(text).read();
}
