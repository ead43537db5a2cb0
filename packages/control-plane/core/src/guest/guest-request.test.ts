// SPDX-License-Identifier: Apache-2.0
// What is asked of a guest before its node is, in KubeVirt's words.
import type { VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { GUEST_REQUESTS, type GuestRequest } from "./requests.ts";
import { checkGuestRequest } from "./guest-request.ts";

type State = "starting" | "running" | "paused" | "with an agent";

const STATES: Readonly<Record<State, VmiStatus>> = {
  starting: { phase: "Scheduled" },
  running: { phase: "Running", conditions: [{ type: "AgentConnected", status: "False" }] },
  paused: { phase: "Running", conditions: [{ type: "Paused", status: "True" }] },
  "with an agent": { phase: "Running", conditions: [{ type: "AgentConnected", status: "True" }] },
};

const NO_AGENT =
  "409 VMI does not have guest agent connected; install qemu-guest-agent in the guest and start it";
const RESET =
  "400 Failed to reset non-running VMI with phase Scheduled: Unable to connect to VirtualMachineInstance because phase is Scheduled instead of Running or Scheduled";

/** By state: starting, running, paused, with an agent. */
const ROWS: Readonly<Record<GuestRequest, readonly string[]>> = {
  pause: ["409 VM is not running", "", "409 VMI is already paused", ""],
  unpause: ["409 VMI is not running", "409 VMI is not paused", "", "409 VMI is not paused"],
  softreboot: ["409 VM is not running", "", "409 VMI is paused", ""],
  reset: [RESET, "", "", ""],
  guestosinfo: ["409 VMI is not running", NO_AGENT, NO_AGENT, ""],
  userlist: ["409 VMI is not running", NO_AGENT, NO_AGENT, ""],
  filesystemlist: ["409 VMI is not running", NO_AGENT, NO_AGENT, ""],
  interfacetraffic: ["409 VMI is not running", "", "", ""],
};

test.each(Object.keys(GUEST_REQUESTS) as GuestRequest[])("%s", (request) => {
  const message = Object.values(STATES).map((status) => {
    const problem = checkGuestRequest(aVmi({ status }), request);
    return problem === undefined ? "" : `${String(problem.code)} ${problem.message}`;
  });
  expect(message).toEqual(ROWS[request]);
});

test("a guest with a liveness probe is not paused, and may be unpaused", () => {
  const vmi = aVmi({ status: STATES.paused });
  const probed = { ...vmi, spec: { ...vmi.spec, livenessProbe: { guestAgentPing: {} } } };
  expect(checkGuestRequest(probed, "pause")).toMatchObject({
    code: 403,
    message: "Pausing VMIs with LivenessProbe is currently not supported",
  });
  expect(checkGuestRequest(probed, "unpause")).toBeUndefined();
});

test("treats a VMI without status as not running", () => {
  const vmi = { ...aVmi(), status: undefined };
  expect(checkGuestRequest(vmi as never, "pause")?.message).toBe("VM is not running");
});
