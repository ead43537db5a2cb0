// SPDX-License-Identifier: Apache-2.0
// A false libvirt daemon, as an attacker in a launcher may run it. A separate program, because daemons are
// distinguished by the listening process. Arguments: the socket's path and the behavior.
import { createServer, type Socket } from "node:net";
import {
  createPacketReader,
  KEEPALIVE_PROGRAM,
  MESSAGE,
  printDomain,
  printError,
  printInts,
  printOptionalText,
  printPacket,
  printText,
  PROCEDURE,
  REPLY,
  type Packet,
} from "./libvirt-wire.ts";

const DOMAIN = "default_vm1";

const XML = `<domain type='kvm'><name>${DOMAIN}</name><os><type arch='x86_64' machine='q35'>hvm</type></os>
<devices><interface type='ethernet'><mac address='02:00:00:00:00:01'/><target dev='tap1'/>
<model type='virtio'/><alias name='ua-one'/><address type='pci' bus='0x02' slot='0x00' function='0x0'/></interface>
<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel></devices></domain>`;

type Answer =
  | Buffer
  | { readonly reply: Buffer; readonly events: Buffer }
  | { readonly error: string; readonly events?: Buffer }
  | "nothing"
  | "hang up";
type Answers = Readonly<Partial<Record<keyof typeof PROCEDURE, () => Answer>>>;

/** An honest daemon's replies; every other procedure returns 0. */
const HONEST: Answers = {
  authList: () => printInts(1, 0),
  supportsFeature: () => printInts(1),
  lookUp: () => printDomain(DOMAIN),
  getState: () => printInts(1, 1),
  isPersistent: () => printInts(1),
  readXml: () => printText(XML),
  register: () => printInts(1),
  interfaceAddresses: () => printAddresses(1, "eth0"),
};

/** The NICs that the guest agent reports. */
function printAddresses(count: number, name: string, addresses: readonly string[] = []): Buffer {
  const hwaddr = printOptionalText("02:00:00:00:00:01");
  const printed = addresses.map((text) =>
    Buffer.concat([printInts(0), printText(text), printInts(24)]),
  );
  const entry = Buffer.concat([printText(name), hwaddr, printInts(printed.length), ...printed]);
  return Buffer.concat([printInts(count), ...Array<Buffer>(count).fill(entry)]);
}

/** XML documents that are costly or confusing to parse. */
const XMLS: Readonly<Record<string, () => string>> = {
  "of 1 MiB": () => `<domain><name>${"x".repeat(1024 * 1024)}</name></domain>`,
  "of 5 MB": () => `<domain><name>${"x".repeat(5_000_000)}</name></domain>`,
  "of control characters": () => "<domain>" + "\u0001".repeat(250 * 1024) + "</domain>",
  "with entities": () =>
    `<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><domain>&b;</domain>`,
  "of 30,000 levels": () => "<a>".repeat(30_000) + "</a>".repeat(30_000),
  "with __proto__": () => "<domain><__proto__ x='1'/><devices __proto__='1'/></domain>",
  "with 6,000 NICs": () => `<domain><devices>${"<interface/>".repeat(6000)}</devices></domain>`,
  "with 20,000 attributes": () =>
    `<domain ${Array.from({ length: 20_000 }, (_, index) => `a${String(index)}=''`).join(" ")}/>`,
  "with false numbers": () =>
    `<domain><devices><interface><address type='pci' bus='-1' slot='1e9' function='NaN'/></interface></devices></domain>`,
};

const EVENT = printPacket(
  { procedure: PROCEDURE.lifecycleEvent, kind: MESSAGE },
  Buffer.concat([printInts(1), printDomain(DOMAIN), printInts(2, 0)]),
);
let tries = 0;

/** The guest's rejection of an unplug. */
const REMOVAL_FAILED = printPacket(
  { procedure: PROCEDURE.removalFailedEvent, kind: MESSAGE },
  Buffer.concat([printInts(1), printDomain(DOMAIN), printText("ua-one")]),
);

const AGENT_EVENT = printPacket(
  { procedure: PROCEDURE.agentEvent, kind: MESSAGE },
  Buffer.concat([printInts(1), printDomain(DOMAIN), printInts(1, 2)]),
);

/** Each behavior's differences from an honest daemon. */
const BEHAVIORS: Readonly<Record<string, Answers>> = {
  honest: {},
  "hangs in a call": { lookUp: () => "nothing" },
  "a guest that never starts": {
    // A defined domain that is off; each start fails with an event and a different message.
    getState: () => printInts(5, 1),
    define: () => printDomain(DOMAIN),
    createWithFlags: () => ({ error: `no kernel, try ${String((tries += 1))}`, events: EVENT }),
  },
  "refuses every unplug": { detach: () => ({ reply: printInts(0), events: REMOVAL_FAILED }) },
  "an agent that rages": {
    interfaceAddresses: () => printAddresses(200, "\u001b[2Jeth0\n"),
  },
  "drops at each read": { readXml: () => "hang up" },
  "an agent with long addresses": {
    interfaceAddresses: () =>
      printAddresses(200, "eth0", Array<string>(200).fill(`10.0.0.1${"0".repeat(200)}`)),
  },
  "an agent with long names": { interfaceAddresses: () => printAddresses(1024, "n".repeat(9000)) },
  "errors of 4 MB": { lookUp: () => ({ error: "\u0001".repeat(4_000_000) }) },
  ...Object.fromEntries(
    Object.entries(XMLS).map(([name, xml]) => [`XML ${name}`, { readXml: () => printText(xml()) }]),
  ),
};

/** Bytes that are not packets of this protocol. */
const NOISE: Readonly<Record<string, Buffer>> = {
  garbage: Buffer.alloc(4096, "garbage"),
  "false lengths": Buffer.concat([printInts(4), Buffer.alloc(64, 1)]),
  "packets of 1 GB": Buffer.concat([printInts(1 << 30), Buffer.alloc(64 * 1024, 1)]),
};

/** Number of event kinds that a client registers: kSubscriptions in packages/adapters/libvirt/native/events.cc. */
const REGISTRATIONS = 7;

const EVENTS = Buffer.concat(Array<Buffer>(2000).fill(EVENT));

/** Sends events as fast as possible, also while the client deregisters. */
function flood(socket: Socket): void {
  const send = (error?: Error | null): void => {
    if (error === null || error === undefined) socket.write(EVENTS, send);
  };
  send();
}

/** As often as the port can be opened. */
function rage(socket: Socket): void {
  const timer = setInterval(() => socket.write(AGENT_EVENT), 10);
  socket.on("close", () => {
    clearInterval(timer);
  });
}

function nameOf(procedure: number): keyof typeof PROCEDURE | undefined {
  const found = Object.entries(PROCEDURE).find(([, number]) => number === procedure);
  return found?.[0] as keyof typeof PROCEDURE | undefined; // a key of that object
}

function answer(socket: Socket, packet: Packet, answers: Answers): void {
  const { program, procedure, serial } = packet;
  if (program === KEEPALIVE_PROGRAM) {
    socket.write(printPacket({ program, procedure: 2, kind: MESSAGE }));
    return;
  }
  const name = nameOf(procedure);
  const input = name === undefined ? printInts(0) : (answers[name] ?? HONEST[name])?.();
  if (input === "hang up") socket.destroy();
  if (input === "hang up" || input === "nothing") return;
  if (input === undefined || Buffer.isBuffer(input)) {
    socket.write(printPacket({ procedure, kind: REPLY, serial }, input));
    return;
  }
  const isError = "error" in input;
  const head = { procedure, kind: REPLY, serial, status: isError ? 1 : 0 };
  socket.write(printPacket(head, isError ? printError(1, 10, input.error) : input.reply));
  if (input.events !== undefined) socket.write(input.events);
}

function serve(socket: Socket, behavior: string): void {
  socket.on("error", () => undefined); // the client may disconnect at any time
  const noise = NOISE[behavior];
  if (noise !== undefined) socket.write(noise);
  if (noise !== undefined || behavior === "silent") return;
  const answers = BEHAVIORS[behavior] ?? {};
  let registered = 0;
  const read = createPacketReader((packet) => {
    const isCall = packet.program !== KEEPALIVE_PROGRAM;
    if (isCall && behavior === "keepalive only") return;
    answer(socket, packet, answers);
    if (packet.procedure === PROCEDURE.readXml && behavior === "drops after each read")
      socket.end();
    if (packet.procedure !== PROCEDURE.register) return;
    registered += 1;
    if (behavior === "floods early" && registered === 3) flood(socket);
    if (behavior === "floods" && registered === REGISTRATIONS) flood(socket);
    if (behavior === "an agent that rages" && registered === REGISTRATIONS) rage(socket);
  });
  socket.on("data", read);
}

const [path = "", behavior = "honest"] = process.argv.slice(2);
createServer((socket) => {
  serve(socket, behavior);
}).listen({ path, writableAll: true, readableAll: true }, () =>
  process.stdout.write("listening\n"),
);
