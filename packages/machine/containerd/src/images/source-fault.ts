// SPDX-License-Identifier: Apache-2.0
// What does a program that could not read a source, or write what it made of it, say that a person can act on? Pure.

/** How tar ends whatever has happened. Source: GNU tar, src/tar.c and lib/paxerror.c. */
const ENDINGS =
  /^tar: (Error is not recoverable: exiting now|Exiting with failure status due to previous errors)$/;
/** Faults that a person can end, and how. Source: strerror(3); GNU tar "Wrote only N of M bytes", "file changed as we read it". */
const STEPS: readonly (readonly [RegExp, string])[] = [
  [
    /No space left on device|Disk quota exceeded|Wrote only/,
    "there is no space left: make room on that file system, or remove images that nobody uses with: patchbay image remove NAME",
  ],
  [
    /Permission denied|Operation not permitted/,
    "it cannot be read: make it readable for root, or copy it to where it is",
  ],
  [
    /changed as we read it|File shrank|File removed before we read it/,
    "it changed while it was read: stop whatever writes to it, and add the image again",
  ],
];

/** The first thing that went wrong, how much more, and what to do. */
export function sayFault(stderr: string): string {
  const lines = stderr.split("\n").map((line) => line.trim());
  const [first = "no reason was given", ...more] = lines.filter(
    (line) => line !== "" && !ENDINGS.test(line),
  );
  const step = STEPS.find(([pattern]) => pattern.test(stderr))?.[1];
  return [
    more.length === 0 ? first : `${first}, and ${String(more.length)} more`,
    ...(step === undefined ? [] : [step]),
  ].join("; ");
}
