// SPDX-License-Identifier: Apache-2.0
// The relay process of one migration. It runs as the launchers' user, without privileges.
import { messageOf } from "@patchbay/base";
import type { ChildChannel } from "@patchbay/core/interfaces";
import { receive } from "./receive.ts";
import { send, reportGone, type Sender } from "./send.ts";
import { DIRECTORY_TOKEN, type RelayCommand, type RelayMessage } from "./protocol.ts";

export function main(channel: ChildChannel): void {
  let sender: Sender | undefined;
  const sendToParent = (message: RelayMessage): void => {
    channel.send(message);
  };
  const execute = async (order: Exclude<RelayCommand, { kind: "reportGone" }>): Promise<void> => {
    const { fd } = channel.claimDescriptor(DIRECTORY_TOKEN); // `fd` is never closed, because `directory` is a path through `fd`.
    const directory = `/proc/self/fd/${String(fd)}`;
    if (order.kind === "receive") {
      await receive(order, directory, sendToParent);
      return;
    }
    sender = order;
    await send(order, directory, sendToParent);
  };
  channel.onMessage((message) => {
    const order = message as RelayCommand; // The cast is safe, because only the trusted parent sends on this channel.
    if (order.kind === "reportGone") {
      if (sender !== undefined) void reportGone(sender, sendToParent);
      return;
    }
    execute(order).catch((error: unknown) => {
      sendToParent({ kind: "failed", reason: messageOf(error) });
    });
  });
}
