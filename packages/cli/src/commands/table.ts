// SPDX-License-Identifier: Apache-2.0
import type { Command, CommandLine } from "../command.ts";
import { doctor } from "./cluster/doctor.ts";
import { install, uninstall } from "./cluster/install.ts";
import { capture, guestConsole, portForward, vnc } from "./streams/streams.ts";
import { ui } from "./streams/ui.ts";
import { scp, ssh } from "./streams/ssh/ssh.ts";
import { createNamespace } from "./create/create-namespace.ts";
import { createVm } from "./create/create-vm.ts";
import { GLOBAL_FLAGS } from "./flags.ts";
import { GUEST_COMMANDS } from "./guest/requests.ts";
import { imageAdd, imageList, imageRemove } from "./images/images.ts";
import { addInterface, removeInterface, setInterface } from "./interfaces/change-interface.ts";
import { explain, getInterfaces, history } from "./interfaces/show-interfaces.ts";
import { expose } from "./services/expose.ts";
import { apiserver, backup, down, restore, up, upgrade } from "./machine/machine.ts";
import { evacuateCancel, migrateCancel, migrate, restart, start, stop } from "./power/power.ts";
import { complete, completion, version } from "./shell/shell.ts";

const GROUPS: CommandLine["groups"] = {
  create: "Create objects",
  get: "Show objects",
  image: "Manage images of the standalone machine",
  set: "Change objects",
};

export const COMMANDS: readonly Command[] = [
  up,
  down,
  upgrade,
  apiserver,
  backup,
  restore,
  imageAdd,
  imageList,
  imageRemove,
  install,
  uninstall,
  doctor,
  createVm,
  createNamespace,
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
  evacuateCancel,
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

export const COMMAND_LINE: CommandLine = {
  commands: COMMANDS,
  groups: GROUPS,
  flags: GLOBAL_FLAGS,
};
