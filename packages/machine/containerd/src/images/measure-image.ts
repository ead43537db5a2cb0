// SPDX-License-Identifier: Apache-2.0
// How large is an image? Its manifest tells.
import { ctr, type CtrDeps } from "../ctr.ts";
import { readManifest } from "./manifest.ts";

/**
 * Bytes of an image as a registry would send it, by the digest of its manifest or index; `architecture` as Go names it.
 * Undefined when it has nothing for this machine.
 * @throws AppError with CONTAINERD_FAILED
 */
export async function measureImage(
  deps: CtrDeps,
  digest: string,
  architecture: string,
): Promise<number | undefined> {
  const facts = readManifest(await ctr(deps, ["content", "get", digest]), architecture);
  if (facts.kind === "image") return facts.bytes;
  return facts.manifest === undefined
    ? undefined
    : measureImage(deps, facts.manifest, architecture);
}
