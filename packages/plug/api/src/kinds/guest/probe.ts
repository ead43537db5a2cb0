// SPDX-License-Identifier: Apache-2.0
// A question that is asked of a guest again and again. Source: KubeVirt api/core/v1 types.go Probe.
import { integer, list, object, text, type JsonSchema } from "../../fields/notation.ts";
import { Type } from "../../fields/schema.ts";
import type { Probe } from "../kubernetes/container.ts";

/** Exactly one way of asking; times in seconds. */
export interface GuestProbe extends Omit<Probe, "grpc"> {
  /** The guest's agent answers. */
  readonly guestAgentPing?: object;
}

const port: JsonSchema = {
  description: "Number or name of the port.",
  "x-kubernetes-int-or-string": true,
};
const host = text("Host; the pod's address when absent.");

function probe(what: string) {
  const schema = object(what, {
    exec: object("A command that the guest's agent runs.", {
      command: list("Command and arguments.", text("One argument.")),
    }),
    guestAgentPing: object("The guest's agent answers."),
    httpGet: object(
      "An HTTP request.",
      {
        host,
        path: text("Path."),
        port,
        scheme: text("HTTP or HTTPS."),
        httpHeaders: list(
          "Headers of the request.",
          object("One header.", { name: text("Name."), value: text("Value.") }, ["name", "value"]),
        ),
      },
      ["port"],
    ),
    tcpSocket: object("A TCP connection.", { host, port }, ["port"]),
    failureThreshold: integer("Failures in a row before it counts as failed; 3 when absent."),
    initialDelaySeconds: integer("Seconds after the start before the first try."),
    periodSeconds: integer("Seconds between tries; 10 when absent."),
    successThreshold: integer("Successes in a row before it counts as well; 1 when absent."),
    timeoutSeconds: integer("Seconds in which an answer must come; 1 when absent."),
  });
  return Type.Optional(Type.Unsafe<GuestProbe>(schema));
}

/** Of `spec` of a VMI. */
export const GUEST_PROBES = {
  livenessProbe: probe("When the guest counts as dead, and is ended."),
  readinessProbe: probe("When the guest counts as ready, for a Service too."),
};
