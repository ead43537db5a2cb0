// SPDX-License-Identifier: Apache-2.0
// Which names a network interface of Linux can have.

/** IFNAMSIZ - 1, in bytes. Source: linux/if.h */
export const LINK_NAME_MAX = 15;

/** Bytes of a text in UTF-8. */
function byteLengthOf(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    bytes += 1 + Number(point > 0x7f) + Number(point > 0x7ff) + Number(point > 0xffff);
  }
  return bytes;
}

/** Whether a link can have this name. Control characters, which the kernel lets pass, are refused: names are printed. Source: linux/net/core/dev.c dev_valid_name. */
export function isLinkName(text: string): boolean {
  return (
    text !== "" &&
    text !== "." &&
    text !== ".." &&
    byteLengthOf(text) <= LINK_NAME_MAX &&
    !/[\s/:\p{Cc}\p{Cs}]/u.test(text)
  );
}
