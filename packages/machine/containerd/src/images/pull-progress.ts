// SPDX-License-Identifier: Apache-2.0
// How far is a pull? `ctr` redraws a table ten times a second; a person wants a line a second. Pure but for what it has read.

/** The table's last line: `elapsed: 1.2 s total: 1.0 Mi (1.2 MiB/s)`. Source: ctr 1.6 to 2.0, progress. */
const LINE = /^elapsed: +([\d.]+) *s +total: +([\d.]+) (Ki|Mi|Gi|Ti)?/;

/** Makes lines for a person of what `ctr images pull` prints. */
export class PullProgress {
  readonly #print: (line: string) => void;
  #rest = "";
  #lastSecond = 0;

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  /** Takes what was printed, in pieces of any size. */
  read(text: string): void {
    const lines = `${this.#rest}${text}`.split(/[\r\n]/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#readLine(line);
  }

  #readLine(line: string): void {
    const [, seconds, amount, unit = ""] = LINE.exec(line) ?? [];
    if (seconds === undefined || amount === undefined) return;
    const second = Math.floor(Number(seconds));
    if (second <= this.#lastSecond) return;
    this.#lastSecond = second;
    this.#print(`${seconds.padStart(7)} s  ${amount} ${unit}B fetched`);
  }
}
