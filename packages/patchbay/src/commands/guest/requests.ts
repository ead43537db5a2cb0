// SPDX-License-Identifier: Apache-2.0
// patchbay pause, unpause, reset, soft-reboot, guestosinfo, userlist and fslist, in virtctl's form.
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";

interface Asked {
  readonly name: string;
  /** Last part of the subresource's path. */
  readonly subresource: string;
  readonly method: "GET" | "PUT";
  readonly summary: string;
}

const ASKED: readonly Asked[] = [
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
    summary: "Ask a VM's guest to reboot",
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

async function ask(context: Context, input: Input, { subresource, method }: Asked): Promise<void> {
  const { askGuest } = await import("./ask-guest.ts");
  await askGuest(context, input, { subresource, method });
}

/** In the order of the help. */
export const GUEST_COMMANDS: readonly Command[] = ASKED.map((asked) => ({
  name: asked.name,
  args: ["<vm...>"],
  values: ["vms"],
  summary: `${asked.summary}: vm NAME, vmi NAME, or NAME`,
  flags: [],
  run: (context, input) => ask(context, input, asked),
}));
