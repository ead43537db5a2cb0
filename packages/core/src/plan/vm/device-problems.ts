// SPDX-License-Identifier: Apache-2.0
// What KubeVirt knows of a guest's devices and no domain is made with.
import type { FieldProblem, VmiSpec } from "@patchbay/api";
import { IO_THREADS_POLICIES, VIDEO_MODELS } from "../node/guest/words.ts";

function wordProblem(value: string | undefined, words: readonly string[]): string | undefined {
  if (value === undefined || value === "" || words.includes(value)) return undefined;
  return `${value} is not supported, use ${words.join(" or ")}`;
}

/** All of them; `base` is where the specification is. */
export function deviceProblems({ domain }: VmiSpec, base: string): readonly FieldProblem[] {
  const { video, watchdog } = domain.devices ?? {};
  const lacksModel = watchdog !== undefined && watchdog.i6300esb === undefined;
  const findings: readonly (readonly [field: string, message: string | undefined])[] = [
    ["ioThreadsPolicy", wordProblem(domain.ioThreadsPolicy, IO_THREADS_POLICIES)],
    ["devices.video.type", wordProblem(video?.type, VIDEO_MODELS)],
    ["devices.watchdog.i6300esb", lacksModel ? "is required: no other model is there" : undefined],
  ];
  return findings.flatMap(([field, message]) =>
    message === undefined ? [] : [{ field: `${base}.domain.${field}`, message }],
  );
}
