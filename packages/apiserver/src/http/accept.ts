// SPDX-License-Identifier: Apache-2.0
// What form of answer a client wants. Source: Kubernetes "Alternate representations of resources".
import { StatusError } from "./status.ts";

/** The form of an answer. */
export interface Representation {
  readonly format: "json" | "yaml";
  /** How objects are shown. */
  readonly as: "object" | "Table" | "PartialObjectMetadata";
  readonly pretty: boolean;
}

const SHOWN: Readonly<Record<string, Representation["as"]>> = {
  Table: "Table",
  PartialObjectMetadata: "PartialObjectMetadata",
  PartialObjectMetadataList: "PartialObjectMetadata",
};

const FORMATS: Readonly<Record<string, Representation["format"]>> = {
  "application/json": "json",
  "application/*": "json",
  "*/*": "json",
  "": "json",
  "application/yaml": "yaml",
};

function parseOne(entry: string): Omit<Representation, "pretty"> | undefined {
  const [type = "", ...parameters] = entry.split(";").map((part) => part.trim());
  const asked = parameters.find((parameter) => parameter.startsWith("as="))?.slice("as=".length);
  const format = FORMATS[type.toLowerCase()];
  const as = asked === undefined ? "object" : SHOWN[asked];
  return format === undefined || as === undefined ? undefined : { format, as };
}

/** Chooses the first form that the server has. Throws a StatusError 406 where it has none. */
export function chooseRepresentation(accept: string, pretty: boolean): Representation {
  for (const entry of accept.split(",")) {
    const found = parseOne(entry);
    if (found !== undefined) {
      return { ...found, pretty };
    }
  }
  const message = "only the following media types are accepted: application/json, application/yaml";
  throw new StatusError({ code: 406, reason: "NotAcceptable", message });
}
