"""What a person can do with a stack that runs: where the console is, and three commands."""
COMMANDS = """\
set -a; eval "$(deploy/local env)"; set +a      # DUETIME_URL, and duetime in PATH
duetime overview
duetime jobs create --topic orders.close --key order-1 --delay 10s --payload '{"order":1}'
duetime jobs get orders.close order-1
"""
ABSENT = "not built; to have it: deploy/packages console && cmake build/{preset} && deploy/local up"


def console(stack):
    api = stack.apis[0]
    status, page = api.get("/console/")
    return f"{api.address}/console/" if status == 200 and b"was not built" not in page else ABSENT.format(preset=api.preset)
