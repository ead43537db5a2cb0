// SPDX-License-Identifier: Apache-2.0
// Swaps the network under the device of an iface: all of it, or the device is where it was.
import { domainNameOf, type NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { StepContext } from "../step-context.ts";

type SwapAction = Extract<NodeAction, { kind: "swapNetwork" }>;

/**
 * The link is down for so long at least, milliseconds: a guest that finds it up again when it looks has seen nothing, and
 * asks for no new address.
 */
const LINK_DOWN_MS = 50;
/** It is too short to be cut. */
const NEVER = new AbortController().signal;

/** As it was before, as far as that can be had; what fails here is seen by the next pass, and mended. */
async function goBack(action: SwapAction, setLink: SetLink, context: StepContext): Promise<void> {
  const { podNetwork, log } = context.deps;
  const steps = [
    () => podNetwork.wireTap(context.session.launcher.netns, action.from),
    () => setLink("up"),
  ];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      log.warn("a NIC could not go back to its network", { iface: action.iface, err: error });
    }
  }
}

type SetLink = (state: "up" | "down") => Promise<void>;

function linkSetter({ link }: SwapAction, { facts, session }: StepContext): SetLink {
  return async (state) => {
    if (link === undefined) return;
    await session.connection.updateDevice(domainNameOf(facts.vmi), link[state], "live");
  };
}

/** The tap is moved while the link is down, for long enough to be seen. */
async function moveTap(action: SwapAction, { session, deps }: StepContext): Promise<void> {
  const begunMs = deps.clock.monotonicMs();
  await deps.podNetwork.wireTap(session.launcher.netns, action.to);
  const leftMs = LINK_DOWN_MS - (deps.clock.monotonicMs() - begunMs);
  if (action.link !== undefined && leftMs > 0) await deps.clock.sleep(leftMs, NEVER);
}

/**
 * What can be made before is made before, so that the link is down for the swap alone.
 * @throws AppError of the step that failed; the device is on its old network then, as far as that can be had.
 */
export async function swapNetwork(action: SwapAction, context: StepContext): Promise<void> {
  const { session, deps, facts } = context;
  const setLink = linkSetter(action, context);
  await deps.podNetwork.makeBridge(session.launcher.netns, action.to);
  const begunMs = deps.clock.monotonicMs();
  try {
    await setLink("down");
    await moveTap(action, context);
  } catch (error) {
    await goBack(action, setLink, context);
    throw error;
  }
  await setLink("up");
  deps.log.info("swapped the network of a NIC", {
    vmi: printKey(keyOf(facts.vmi)),
    iface: action.iface,
    linkDownMs: Math.round(deps.clock.monotonicMs() - begunMs),
  });
}
