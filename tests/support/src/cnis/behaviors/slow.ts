// SPDX-License-Identifier: Apache-2.0
// Needs `delaySeconds` for ADD. Source: clouds attach a network card to the node first; amazon-vpc-cni-k8s,
// "ENI and IP target", names seconds up to tens of seconds.
import type { Behavior } from "../call.ts";

export const SLOW: Behavior = {
  prepare: ({ args, config: { delaySeconds, ...config } }) => {
    const ms = typeof delaySeconds === "number" ? delaySeconds * 1000 : 0;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    return { args, config };
  },
};
