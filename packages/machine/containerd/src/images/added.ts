// SPDX-License-Identifier: Apache-2.0
// Which names of images were given on this machine? Each has a label, which says of what: it counts for nothing else.
import { ctr, type CtrDeps } from "../ctr.ts";

const LABEL = "patchbay.io/added";

/** Marks the name as one that was given on this machine, for what it names now. */
export async function markAdded(
  deps: CtrDeps,
  image: { readonly name: string; readonly digest: string },
): Promise<void> {
  await ctr(deps, ["images", "label", image.name, `${LABEL}=${image.digest}`]);
}

/** Names whose mark is of what they name; those that a fetch has taken over since are not among them. Pure. */
export function markedIn(listing: string): readonly string[] {
  return listing.split("\n").flatMap((line) => {
    const [name = "", , digest = ""] = line.split(/\s+/);
    return line.includes(`${LABEL}=${digest}`) && digest !== "" ? [name] : [];
  });
}

/** Names of images that were added on this machine; with a whole reference: of that name at most. */
export async function listAdded(deps: CtrDeps, name?: string): Promise<readonly string[]> {
  const filter = name === undefined ? [] : [`name==${JSON.stringify(name)}`];
  return markedIn(await ctr(deps, ["images", "ls", ...filter]));
}
