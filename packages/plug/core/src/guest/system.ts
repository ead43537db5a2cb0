// SPDX-License-Identifier: Apache-2.0
// What of a guest's words about its system can be shown. The guest is hostile.
import type { GuestOsInfo } from "@patchbay/api";

/** Longest text that is shown, characters. */
const TEXT_MAX = 255;

/** Whether a guest's word can be shown to people as it is. */
export function isShowable(text: string): boolean {
  return text !== "" && text.length <= TEXT_MAX && !/\p{Cc}|\p{Cf}/u.test(text);
}

/** What can be shown of an answer of the guest's agent; the rest is left out. */
export function readGuestSystem(answer: GuestOsInfo): GuestOsInfo {
  const shown = Object.entries(answer).filter(([, text]) => isShowable(text));
  return Object.fromEntries(shown);
}
