// Lets a server of Node listen on the loopback only: the reference server has no setting for it.
const { Server } = require("node:net");

const listen = Server.prototype.listen;

Server.prototype.listen = function (port, ...rest) {
  const others = rest.filter((each) => typeof each !== "string");
  return listen.call(this, port, "127.0.0.1", ...others);
};
