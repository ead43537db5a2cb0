// SPDX-License-Identifier: Apache-2.0
// Which of two places is the guest's? Source: KubeVirt virtctl scp.
import { AppError } from "@patchbay/core/errors";
import { parseGuestName, type GuestName } from "../guest-name.ts";

/** From one to the other. */
export interface Copy {
  readonly guest: GuestName;
  /** In the guest; empty: its user's home. */
  readonly path: string;
  /** As scp takes it for a file here, whatever is in its name. */
  readonly local: string;
  readonly isToGuest: boolean;
}

/** A guest, with its kind or a user or without, then a colon. */
const REMOTE = /^((?:[^/:]+@)?(?:[a-z]+\/)?[a-z0-9][^/:@]*(?:\/[^/:]+)?):(.*)$/s;

/** scp would take `a:b` for a host, and `-a` for a flag. */
function localOf(path: string): string {
  return path.startsWith("/") || path.startsWith("./") || path.startsWith("../")
    ? path
    : `./${path}`;
}

/** @throws AppError with FLAG_INVALID unless exactly one of them is a guest's */
export function parseCopy(source: string, target: string): Copy {
  const [from, to] = [REMOTE.exec(source), REMOTE.exec(target)];
  if ((from === null) === (to === null)) {
    const reason = `one of ${source} and ${target} is to be a guest's: [user@]vm/NAME[/NAMESPACE]:PATH`;
    throw new AppError("FLAG_INVALID", { flag: "<source> <target>", reason });
  }
  const [, name = "", path = ""] = from ?? to ?? [];
  const local = localOf(from === null ? source : target);
  return { guest: parseGuestName(name), path, local, isToGuest: from === null };
}
