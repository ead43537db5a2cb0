// SPDX-License-Identifier: Apache-2.0
// Which commands are there? Each is in a file of its own.
import type { Command, CommandLine } from "../command.ts";
import { doctor } from "./cluster/doctor.ts";
import { install } from "./cluster/install.ts";
import { uninstall } from "./cluster/uninstall.ts";
import { capture } from "./streams/capture.ts";
import { guestConsole } from "./streams/console.ts";
import { portForward } from "./streams/port-forward.ts";
import { ui } from "./streams/ui.ts";
import { scp } from "./streams/ssh/scp.ts";
import { ssh } from "./streams/ssh/ssh.ts";
import { vnc } from "./streams/vnc.ts";
import { createVm } from "./create/create-vm.ts";
import { GLOBAL_FLAGS } from "./flags.ts";
import { GUEST_COMMANDS } from "./guest/requests.ts";
import { imageAdd } from "./images/image-add.ts";
import { imageList } from "./images/image-list.ts";
import { imageRemove } from "./images/image-remove.ts";
import { addInterface } from "./interfaces/add-interface.ts";
import { explain } from "./interfaces/explain.ts";
import { getInterfaces } from "./interfaces/get-interfaces.ts";
import { history } from "./interfaces/history.ts";
import { removeInterface } from "./interfaces/remove-interface.ts";
import { setInterface } from "./interfaces/set-interface.ts";
import { expose } from "./services/expose.ts";
import { apiserver } from "./machine/apiserver.ts";
import { down } from "./machine/down.ts";
import { restore } from "./machine/restore.ts";
import { up } from "./machine/up.ts";
import { migrateCancel } from "./power/migrate-cancel.ts";
import { migrate } from "./power/migrate.ts";
import { restart } from "./power/restart.ts";
import { start } from "./power/start.ts";
import { stop } from "./power/stop.ts";
import { complete } from "./shell/complete.ts";
import { completion } from "./shell/completion.ts";
import { version } from "./shell/version.ts";

const GROUPS: CommandLine["groups"] = {
  create: "Create objects",
  get: "Show objects",
  image: "Manage images of the standalone machine",
  set: "Change objects",
};

/** All commands, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  up,
  down,
  apiserver,
  restore,
  imageAdd,
  imageList,
  imageRemove,
  install,
  uninstall,
  doctor,
  createVm,
  addInterface,
  setInterface,
  removeInterface,
  getInterfaces,
  explain,
  history,
  start,
  stop,
  restart,
  migrate,
  migrateCancel,
  ...GUEST_COMMANDS,
  ui,
  guestConsole,
  vnc,
  portForward,
  ssh,
  scp,
  capture,
  expose,
  completion,
  complete,
  version,
];

/** What shells are told, and the help shows. */
export const COMMAND_LINE: CommandLine = {
  commands: COMMANDS,
  groups: GROUPS,
  flags: GLOBAL_FLAGS,
};
