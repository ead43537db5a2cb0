// SPDX-License-Identifier: Apache-2.0
// Which images does a pod need next? Those of volumes, and of containers that do not run. Pure.
import { containersOf, latestOf, nextAttempt, type LivePodFacts } from "./facts.ts";
import { pullPolicyOf, type ImageUse } from "./work/pulls.ts";

/** The volumes' first. */
export function imageUsesOf(facts: LivePodFacts): readonly ImageUse[] {
  const { pod, uid } = facts;
  const volumes = (pod.spec.volumes ?? []).flatMap(({ name, image }): readonly ImageUse[] => {
    if (image === undefined) return [];
    const { reference, pullPolicy } = image;
    const policy = pullPolicyOf(reference, pullPolicy);
    return [{ uid, reference, policy, start: `volume ${name}` }];
  });
  const containers = containersOf(pod)
    .filter(({ name }) => latestOf(facts, name)?.state !== "RUNNING")
    .map(({ name, image: reference, imagePullPolicy }): ImageUse => {
      const policy = pullPolicyOf(reference, imagePullPolicy);
      return { uid, reference, policy, start: `${name} ${String(nextAttempt(facts, name))}` };
    });
  return [...volumes, ...containers];
}
