// SPDX-License-Identifier: Apache-2.0
// Assigns another address at each ADD and ignores requested ones. Source: OVN-Kubernetes without persistent IPs
// (features/multiple-networks/multi-homing), whereabouts without a reservation.
import type { Behavior } from "../call.ts";

export const MOVES: Behavior = {
  prepare: ({ args, config }) => {
    const { CNI_ARGS = "" } = args;
    const others = CNI_ARGS.split(";").filter((each) => !each.startsWith("IP="));
    // host-local continues after the address that it assigned last.
    return {
      args: { ...args, CNI_ARGS: others.join(";") },
      config: { ...config, args: {}, runtimeConfig: {} },
    };
  },
};
