// SPDX-License-Identifier: Apache-2.0
// patchbay pause, unpause, reset, soft-reboot, guestosinfo, userlist and fslist, with virtctl's syntax.
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";

interface GuestCommandSpec {
  readonly name: string;
  readonly subresource: string;
  readonly method: "GET" | "PUT";
  readonly summary: string;
}

const GUEST_COMMAND_SPECS: readonly GuestCommandSpec[] = [
  { name: "pause", subresource: "pause", method: "PUT", summary: "Pause a VM" },
  { name: "unpause", subresource: "unpause", method: "PUT", summary: "Resume a paused VM" },
  {
    name: "reset",
    subresource: "reset",
    method: "PUT",
    summary: "Reset a VM, as its reset button would",
  },
  {
    name: "soft-reboot",
    subresource: "softreboot",
    method: "PUT",
    summary: "Request a reboot of a VM's guest",
  },
  {
    name: "guestosinfo",
    subresource: "guestosinfo",
    method: "GET",
    summary: "Show the guest's operating system, as its agent reports it",
  },
  {
    name: "userlist",
    subresource: "userlist",
    method: "GET",
    summary: "Show who is logged in to a VM's guest",
  },
  {
    name: "fslist",
    subresource: "filesystemlist",
    method: "GET",
    summary: "Show the file systems of a VM's guest",
  },
];

async function run(
  context: Context,
  input: Input,
  { subresource, method }: GuestCommandSpec,
): Promise<void> {
  const { requestGuest } = await import("./request-guest.ts");
  await requestGuest(context, input, { subresource, method });
}

export const GUEST_COMMANDS: readonly Command[] = GUEST_COMMAND_SPECS.map((spec) => ({
  name: spec.name,
  args: ["<vm...>"],
  values: ["vms"],
  summary: `${spec.summary}: vm NAME, vmi NAME, or NAME`,
  flags: [],
  run: (context, input) => run(context, input, spec),
}));
