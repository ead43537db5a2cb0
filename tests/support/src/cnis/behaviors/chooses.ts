// SPDX-License-Identifier: Apache-2.0
// Replaces the requested MAC by a random one. Source: Kube-OVN and OVN-Kubernetes assign MACs from their own database.
import { randomBytes } from "node:crypto";
import type { Behavior, Call } from "../call.ts";
import { pinMac, removePinned } from "./pins.ts";

function chooseMac({ args, config }: Call): Call {
  const { CNI_ARGS = "" } = args;
  const others = CNI_ARGS.split(";").filter((each) => !each.startsWith("MAC=") && each !== "");
  const mac = ["02", ...(randomBytes(5).toString("hex").match(/../g) ?? [])].join(":");
  return {
    args: { ...args, CNI_ARGS: [...others, `MAC=${mac}`].join(";") },
    config: { ...config, runtimeConfig: {} },
  };
}

export const CHOOSES: Behavior = { prepare: chooseMac, finish: pinMac, remove: removePinned };
