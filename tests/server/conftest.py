from server_fixtures import choice as choice
from server_fixtures import client as client
from server_fixtures import encoder as encoder
from server_fixtures import services as services
