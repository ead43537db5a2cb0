// SPDX-License-Identifier: Apache-2.0
// Does a Linux guest really boot under KVM here? The device alone says nothing: nested KVM can exist and hang.
import { join } from "node:path";
import type { JsonObject } from "@patchbay/api/json";
import { readFields, textOf } from "../data-dir/json.ts";
import {
  listBootImages,
  tryGuest,
  type BootImage,
  type TrialDeps,
} from "../runtime/guest-trial.ts";

/** A guest that needs longer than this under KVM does not boot, milliseconds. */
const BOOT_TIMEOUT_MS = 15_000;
const DEVICE = "/dev/kvm";

/** What guests run under, and why. */
export interface KvmFinding {
  readonly useEmulation: boolean;
  /** For a person. */
  readonly why: string;
}

/** Where a guest is tried, and where the answer is kept until the host starts anew. */
export interface ProbeDeps extends TrialDeps {
  readonly bootId: string;
  /** As Node.js says: `x64` or `arm64`. */
  readonly architecture: string;
  /** Resolves when the launchers' image is there. */
  readonly launcherImage: () => Promise<void>;
}

/** What was found with an image that is still there; another kernel is another question. */
function findKnown(
  known: JsonObject | undefined,
  bootId: string,
  images: readonly BootImage[],
): KvmFinding | undefined {
  if (textOf(known, "bootId") !== bootId) return undefined;
  if (!images.some(({ digest }) => digest === textOf(known, "digest"))) return undefined;
  return { useEmulation: known?.["useEmulation"] === true, why: textOf(known, "why") };
}

function judge(problem: string | undefined): KvmFinding {
  return problem === undefined
    ? { useEmulation: false, why: "a guest boots under KVM: guests use KVM" }
    : {
        useEmulation: true,
        why: `KVM does not work (${problem}): guests are emulated in software`,
      };
}

/** Asks once for each boot and kernel; the answer is kept. */
export async function probeKvm(deps: ProbeDeps): Promise<KvmFinding> {
  const { files, paths, bootId, architecture } = deps;
  if (!(await files.exists(DEVICE))) {
    return { useEmulation: true, why: `there is no ${DEVICE}: guests are emulated in software` };
  }
  const cache = join(paths.run, "kvm-probe.json");
  const images = await listBootImages(deps);
  const known = findKnown(await readFields(files, cache), bootId, images);
  if (known !== undefined) return known;
  await deps.launcherImage();
  const trial = { accelerator: "kvm", architecture, timeoutMs: BOOT_TIMEOUT_MS } as const;
  for (const image of images) {
    const outcome = await tryGuest(deps, image, trial);
    if (outcome === undefined) continue;
    const finding = judge(outcome.problem);
    const { digest } = image;
    await files.writeAtomic(cache, `${JSON.stringify({ bootId, digest, ...finding })}\n`);
    return finding;
  }
  const why = `no image has vmlinuz and initrd to try KVM with: guests are emulated in software until the next start with one`;
  return { useEmulation: true, why };
}
